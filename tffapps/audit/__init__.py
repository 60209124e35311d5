"""`tffapps audit`: what a finished run gives away of the images that it was trained on, by attacking it."""
