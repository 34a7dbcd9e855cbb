{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set engine = metalk8s.container_engine %}
{%- set registries = engine.config_folder ~ "/certs.d" %}
{%- set network = metalk8s.pod_network %}
{%- set balancer = metalk8s.load_balancer %}
{%- set tasks = "ctr --address " ~ engine.socket ~ " --namespace " ~ engine.namespace ~ " tasks" %}

# containers outlive their engine: none of them may be left without one
Stop the containers of Kubernetes:
  cmd.run:
    # one that ends by itself meanwhile makes the deletion fail: what counts is that none is left
    - name: |
        {{ tasks }} list --quiet | xargs --no-run-if-empty {{ tasks }} delete --force
        ! {{ tasks }} list --quiet | grep .
    - onlyif: "{{ tasks }} list --quiet | grep --quiet ."
    - retry:
        attempts: 10
        interval: 1

Stop the container engine:
  service.dead:
    - name: {{ engine.service }}
    - enable: false
    - require:
      - cmd: Stop the containers of Kubernetes

Release the version of the container engine:
  pkg.unheld:
    - pkgs: {{ engine.packages | json }}

# first, so that the package manager finds its folder empty and removes that too
Remove the configuration of the container engine:
  file.absent:
    - names:
      - {{ engine.config_folder }}/config.toml
      - {{ registries }}/{{ metalk8s.registry.host }}
      - {{ engine.cni.networks }}/{{ network.cni_file }}
    - require:
      - service: Stop the container engine

# the site may have registries of its own
Remove the folder of registries when it is empty:
  cmd.run:
    - name: rmdir {{ registries }}
    - onlyif: test -d {{ registries }} && ! ls -A {{ registries }} | grep --quiet .
    - require:
      - file: Remove the configuration of the container engine
    - require_in:
      - pkg: Remove the container engine

Remove the container engine:
  pkg.purged:
    - pkgs: {{ engine.packages | map("first") | list | json }}
    - require:
      - file: Remove the configuration of the container engine
      - pkg: Release the version of the container engine

Remove the data of the container engine:
  file.absent:
    - name: {{ engine.data }}
    - unless: mountpoint --quiet {{ engine.data }}
    - require:
      - pkg: Remove the container engine

Empty the disk of the container engine:
  cmd.run:
    - name: find {{ engine.data }} -mindepth 1 -maxdepth 1 -exec rm -r {} +
    - onlyif: mountpoint --quiet {{ engine.data }} && find {{ engine.data }} -mindepth 1 | grep --quiet .
    - require:
      - pkg: Remove the container engine

# what the pod of the network wrote goes after the last pod, and with it nobody's but its own
Take the routes of pods from the kernel:
  cmd.run:
    - name: |
        ip route flush table all protocol {{ network.protocol }}
        ip rule flush protocol {{ network.protocol }}
        ! ip link show dev {{ network.device }} >/dev/null 2>&1 || ip link delete dev {{ network.device }}
    - onlyif: >-
        ip route show table all protocol {{ network.protocol }} | grep . ||
        ip -N rule show | grep --word-regexp "proto {{ network.protocol }}" ||
        ip link show dev {{ network.device }}
    - require:
      - cmd: Stop the containers of Kubernetes

Take the rules for pods from the packet filter:
  cmd.run:
    - name: nft delete table ip {{ network.table }}
    - onlyif: nft list table ip {{ network.table }}
    - require:
      - cmd: Stop the containers of Kubernetes

Take the policies for pods from the packet filter:
  cmd.run:
    - name: nft delete table ip {{ network.policies }}
    - onlyif: nft list table ip {{ network.policies }}
    - require:
      - cmd: Stop the containers of Kubernetes

# a keepalived that was killed leaves its addresses behind, and notes of which they are
Take the addresses of Services from the machine:
  cmd.run:
    - name: |
        ! test -e {{ balancer.folder }}/addresses || while read -r address device; do
            ip address delete "$address/32" dev "$device" 2>/dev/null || true
        done <{{ balancer.folder }}/addresses
        rm -rf {{ balancer.folder }}
    - onlyif: test -e {{ balancer.folder }}
    - require:
      - cmd: Stop the containers of Kubernetes

Take the rules for addresses of Services from the packet filter:
  cmd.run:
    - name: nft delete table ip {{ balancer.table }}
    - onlyif: nft list table ip {{ balancer.table }}
    - require:
      - cmd: Stop the containers of Kubernetes
