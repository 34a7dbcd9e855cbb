{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set master = metalk8s.salt_master %}

Stop the Salt master:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/salt-master.yaml
    - pod: salt-master-{{ metalk8s.node.name }}

Remove the files of the Salt master:
  file.absent:
    - names:
      - {{ master.config_folder }}
      - {{ master.data }}
      - {{ master.key_folder }}
    - require:
      - metalk8s_static_pod: Stop the Salt master
