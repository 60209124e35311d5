"""The platform around a catalogue: buyers ask with a picture, artists join, read their requests, and leave.

  desk.py      what is kept beside the artists, in the same file: tokens, requests, the log, the ratings
  finder.py    a picture → artists in their order, "none of these" among them
  visitors.py  who asks: roles by token, forms that only this server's pages can send
  limits.py    how often somebody may do something
  views.py     what is answered at which address; api.py is the part that programs ask
  pages.py, rooms.py, cards.py, parts.py, style.py, script.py   how it looks
  server.py    HTTP
  remote.py    the artist's side of it, at their own machine

No picture that somebody asks with is kept, nor what the network makes of it.
"""
