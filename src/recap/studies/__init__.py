"""Human studies: from test captions to forms that raters fill in, and from their answers to
tables."""
