"""Results in the forms that others ask for, such as the file that COCO's server takes."""
