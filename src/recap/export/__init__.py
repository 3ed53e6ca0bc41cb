"""Results in the forms that others ask for."""
