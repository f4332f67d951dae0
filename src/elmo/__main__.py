"""`python -m elmo` is the command `elmo`."""

from elmo.commands import main

main()
