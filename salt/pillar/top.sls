# Which pillar a minion gets; the pillarenv follows the saltenv (pillarenv_from_saltenv).
{{ saltenv }}:
  "*":
    - metalk8s.node
