{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.kubelet.installed

Create the folder of static pods:
  file.directory:
    - name: {{ metalk8s.kubelet.static_pods }}
    - user: root
    - group: root
    - mode: "0700"
    - makedirs: true

Configure the kubelet:
  file.managed:
    - name: {{ metalk8s.kubelet.config }}
    - source: salt://metalk8s/kubelet/files/config.yaml.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - pkg: Install the kubelet

Set the arguments of the kubelet:
  file.managed:
    - name: {{ metalk8s.kubelet.arguments }}
    - source: salt://metalk8s/kubelet/files/kubeadm-flags.env.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - pkg: Install the kubelet
