{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.authorities
  - metalk8s.kubelet.installed

Create the folder of static pods:
  file.directory:
    - name: {{ metalk8s.kubelet.static_pods }}
    - user: root
    - group: root
    - mode: "0700"
    - require:
      - file: Create the folders of certificates # it is beside them

Create the folder of the kubelet:
  file.directory:
    - name: {{ metalk8s.kubelet.data }}
    - user: root
    - group: root
    - mode: "0750" # as it makes it itself

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
      - file: Create the folder of the kubelet

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
      - file: Create the folder of the kubelet
