"""The paper's tables and figures for one model, in one report: what held, what did not.

paper.py  the paper's figures          plan.py         what is trained and measured
data.py   the files that are needed    probes.py       tables 4, 5 and 6
claims.py held or not                  task_scores.py  tables 1, 2 and 3, figures 1 and 2
report.py sections -> Markdown, HTML   run.py          all of it, in order, gone on with after a break
"""
