"""The page of `pumice ui`: runs in a browser. `data` reads, `html_*` draws, `server` serves."""
