"""The page of `pumice ui`: runs in a browser. `data` reads runs, `templates` draw pages, `server` serves them."""
