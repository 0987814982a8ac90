"""What a Job must be like to be let in: defaults and rules. Pure."""
