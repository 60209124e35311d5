"""How a coordinator asks a site to prepare something from its own images, beside the rounds.

A round is TensorFlow and runs in the worker; separating stains or training a generator is not. So the coordinator has
the worker write a request into the site's working folder, the site's own process does what it says, and the worker
reads the answer:

    asked/<id>          the request, a message
    asked/<id>.ready    says that the request is whole; holds a word that the answer to this asking repeats
    answers/<id>        the answer, a message
    made/<id>/…         files that were made, which later pipelines read by these paths
    told/…              lines for the site's log

Jobs are named after their system: `fedsda/stains`. Nothing but the jobs of a site's own systems is done, on the site's
own rows, and what is made stays at the site.
"""

ASKED, ANSWERS, MADE, TOLD, READY = "asked", "answers", "made", "told", ".ready"
JOB = "job"  # the field of a request that names it
ERROR, ASKING = "error", "asking"  # fields of an answer: what went wrong, in one line, and in which asking


def made_path(identity: str, number: int) -> str:
    """Where the worker finds the file with this number that a job made."""
    return f"{MADE}/{identity}/{file_name(number)}"


def file_name(number: int) -> str:
    return f"{number:06d}"
