{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set others = {} %}
{%- for other, address in metalk8s.etcd.members.items() if other != metalk8s.node.name %}
  {%- do others.update({other: address}) %}
{%- endfor %}

include:
  - metalk8s.etcd.absent

# A deployment takes them by itself: only what a removed member of this cluster has left.
Nobody needs the data of the former member:
  metalk8s_etcd.outlived:
    - name: {{ metalk8s.node.name | json }}
    - others: {{ others | json }}
    - data: {{ metalk8s.etcd.data }}
    - order: first
    - failhard: true
    - require_in:
      - metalk8s_etcd: No other member of etcd counts on this one
