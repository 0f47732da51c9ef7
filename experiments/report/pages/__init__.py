"""The pages of the site, as Markdown that Sphinx reads: each module makes those of one kind."""
