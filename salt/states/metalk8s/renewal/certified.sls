{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set kubelet = metalk8s.kubelet %}

# What the timer applies, without the master and without the API server. One certificate that cannot be made does
# not keep the others from being used.
include:
{%- for role in metalk8s.node.roles %}
  - metalk8s.roles.{{ role }}.certified
{%- endfor %}

Run the kubelet with its new certificate:
  metalk8s_service.renewed:
    - name: {{ kubelet.service }}
    - files:
      - {{ kubelet.kubeconfig }}
      - {{ kubelet.certificate }}.crt
    - order: last

Run the static pods with their new certificates:
  metalk8s_static_pod.renewed:
    - name: {{ kubelet.static_pods }}
    - node: {{ metalk8s.node.name | json }}
    - order: last
