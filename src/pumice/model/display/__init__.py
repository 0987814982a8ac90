"""Values for people: a Job in a few words, and HTML for notebooks in which nothing is markup."""
