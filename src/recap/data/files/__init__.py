"""Files from outside: pictures, archives, and what the list of outside files says of them."""
