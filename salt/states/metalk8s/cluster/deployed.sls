{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set labels = {"metalk8s.scality.com/version": metalk8s.version} %}
{%- for role in metalk8s.cluster.roles %}
{%- do labels.update({"node-role.kubernetes.io/" ~ role: ""}) %}
{%- endfor %}

include:
  - metalk8s.kube-apiserver.running
  # a node is ready when its pods have a network
  - metalk8s.pod-network.deployed

Describe the cluster:
  metalk8s_kubernetes.applied:
    - source: salt://metalk8s/cluster/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
    - require:
      - metalk8s_kubernetes: The API server answers

Mark the node:
  metalk8s_kubernetes.node_marked:
    - name: {{ metalk8s.node.name | json }}
    - labels: {{ labels | json }}
    - annotations: {{ metalk8s.cluster.annotations | json }}
    - taints: {{ metalk8s.cluster.taints | json }}
    - require:
      - metalk8s_kubernetes: The API server answers

# here and not where it is deployed: meanwhile, kube-proxy comes up
Pods of this machine have a network:
  metalk8s_tls.healthy:
    - name: http://127.0.0.1:{{ metalk8s.ports.pod_network_health.number }}/readyz
    - require:
      - metalk8s_kubernetes: Mark the node
      - metalk8s_kubernetes: Deploy the network of pods

The node is ready:
  metalk8s_kubernetes.node_ready:
    - name: {{ metalk8s.node.name | json }}
    - require:
      - metalk8s_tls: Pods of this machine have a network
