{%- from "metalk8s/map.jinja" import metalk8s with context %}
{%- set engine = metalk8s.container_engine %}
{%- set tasks = "ctr --namespace " ~ engine.namespace ~ " tasks" %}

# containers outlive their engine: none of them may be left without one
Stop the containers of Kubernetes:
  cmd.run:
    - name: {{ tasks }} list --quiet | xargs {{ tasks }} delete --force
    - onlyif: "{{ tasks }} list --quiet | grep --quiet ."

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
    - name: {{ engine.config_folder }}/config.toml
    - require:
      - service: Stop the container engine

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
  file.directory:
    - name: {{ engine.data }}
    - clean: true
    - onlyif: mountpoint --quiet {{ engine.data }}
    - require:
      - pkg: Remove the container engine
