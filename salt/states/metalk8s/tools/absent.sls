{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

# what is of the operating system stays: others may use it by now
Release the version of the tools:
  pkg.unheld:
    - pkgs: {{ metalk8s.tools.packages | json }}

Remove the tools:
  pkg.purged:
    - pkgs: {{ metalk8s.tools.packages | map("first") | list | json }}
    - require:
      - pkg: Release the version of the tools
