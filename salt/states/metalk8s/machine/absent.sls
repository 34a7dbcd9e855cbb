{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set minion = metalk8s.salt_minion %}
{%- set others = metalk8s.nodes.keys() | reject("equalto", metalk8s.node.name) | sort | join(", ") %}
# Everything of ours leaves the machine, whatever roles it has or had; it can join again afterwards.

{%- if metalk8s.has_authorities %}
  {%- if others %}
    {{- raise(metalk8s.node.name ~ " is the bootstrap machine of " ~ others ~ ", which cannot be without it: remove "
              ~ "those from the cluster first") }}
  {%- endif %}

include:
  - metalk8s.roles.bootstrap.absent
{%- else %}

include: {{ salt["metalk8s_roles.everything"](saltenv) | json }}

Let the version of the Salt minion go:
  pkg.unheld:
    - pkgs: {{ minion.packages | json }}

# It is what applies this, and says how it went.
Let the Salt minion leave the machine when it has said so:
  metalk8s_machine.minion_leaves:
    - name: {{ minion.service }}
    - packages: {{ (minion.packages | map("first") | list + ["metalk8s-salt"]) | json }}
    - os_family: {{ metalk8s.os_family }}
    - files:
      - {{ minion.config }}
      - {{ minion.key_folder }}
      - {{ minion.certificate }}.crt
      - {{ minion.certificate }}.key
      - {{ metalk8s.pki.authorities.salt.path }}.crt
      - /var/cache/salt/minion
    - folders:
      - /etc/kubernetes
      - /etc/metalk8s
      - /var/lib/metalk8s
    - require:
      - pkg: Let the version of the Salt minion go
    - order: last
{%- endif %}
