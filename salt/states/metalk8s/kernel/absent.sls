{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

# what is loaded and set stays until the machine starts anew: others may count on it by now
Leave the kernel as the machine has it at its next start:
  file.absent:
    - names:
      - {{ metalk8s.kernel.modules_file }}
      - {{ metalk8s.kernel.settings_file }}
