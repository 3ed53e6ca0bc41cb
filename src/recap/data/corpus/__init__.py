"""The corpus file, in which every data set ends, and the card that counts what is in it."""
