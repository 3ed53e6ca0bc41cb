"""Human studies: from test captions to forms for raters, and from answers to tables."""
