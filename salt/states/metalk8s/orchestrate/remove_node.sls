# A machine leaves the cluster. For the Salt master, which plans it; one that is dead with `"dead": true` beside its name:
#   salt-run state.orchestrate metalk8s.orchestrate.remove_node saltenv=metalk8s-<version>
#     pillar='{"orchestrate": {"node_name": "<name>"}}'
{%- set plan = salt["metalk8s_orchestration.planned"]("remove") %}

Begin the removal:
  metalk8s_deploy.begun:
    - name: Removal of {{ plan.node }}
    - node: {{ plan.node | json }}
    - action: {{ plan.action }}
{%- for step in plan.steps %}

Step {{ loop.index }} of the removal:
  metalk8s_deploy.done:
    - name: {{ step.title | json }}
    - node: {{ plan.node | json }}
    - step: {{ step.id | json }}
    - require:
      - metalk8s_deploy: {{ "Begin the removal" if loop.first else "Step " ~ loop.index0 ~ " of the removal" }}
{%- endfor %}

# Whatever has become of the steps.
End the removal:
  metalk8s_deploy.ended:
    - name: End of the removal of {{ plan.node }}
    - node: {{ plan.node | json }}
    - order: last
