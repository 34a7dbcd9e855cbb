"""The manual as HTML: pages of Markdown in, a site that opens from a medium out.

::

    docs/, README, … ──pages──> Markdown as one folder ──site──> HTML ──links──> nothing leads away
"""
