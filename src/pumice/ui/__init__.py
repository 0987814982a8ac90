"""The page of `pumice ui`: runs in a browser. `data` reads the store, `html` draws pages, `server` serves them."""
