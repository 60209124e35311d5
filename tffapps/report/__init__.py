"""The page, `python -m tffapps.report`: every table and figure below `results/` in one file, `results/index.html`.

The page needs nothing but itself: pictures are in it, the style is in it, and no program is. TensorFlow is not
imported.
  sheet       a CSV file as it is                       cells     a table's columns and cells as they are shown
  systems     what each application is, and its files   words     the names of columns in words
  headlines   what is compared with what                summary   those comparisons, from the tables
  costs       seconds and bytes, from the runs          pictures  images that lie in the page
  markup      HTML, escaped                             page      the whole page
"""
