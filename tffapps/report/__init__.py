"""The page, `python -m tffapps.report`: every table and figure below `results/` in one file, `results/index.html`.

The page needs nothing but itself: pictures are in it, the style is in it, and no program is. TensorFlow is not
imported.
  systems     what each application is, and its files   words      the names of columns in words
  forest      all claims in one drawing                 summary    the claims, as claims.csv has them
  collect     reads a results folder, by way of: sheet (a CSV file), pictures (images), costs (records of runs)
  page        the whole page, made of: summary_block, sentences, blocks (tables and figures), cells, markup, style
"""
