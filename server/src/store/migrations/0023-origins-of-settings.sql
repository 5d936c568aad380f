-- Where the settings of older releases come from: from the request of their build, from a file, or by default. The
-- defaults are those of the versions that made these releases.

update releases r set (origins, base_settings) = (
  select
    coalesce(jsonb_object_agg(s.key, case when s.is_api then 'api' when s.is_default then 'default' else 'repository' end), '{}'),
    coalesce(jsonb_object_agg(s.key, jsonb_build_object('value', s.value, 'path', s.key, 'origin', 'repository'))
      filter (where not s.is_api and not s.is_default), '{}')
  from (
    select key, value, coalesce(b.request -> key, 'null') <> 'null' as is_api,
      value is not distinct from coalesce(
        '{"baseImage": "debian:bookworm-slim", "compute": ["CPU"], "computeTier": "interruptible", "cooldownPeriodSeconds": 10,
          "cpu": 2, "deploymentInitializationTimeout": 600, "disableAuth": false, "entrypoint": [],
          "evaluationIntervalSeconds": 30, "gitAutoDeploy": true, "gitBranch": "main", "gitPath": "", "gpuCount": 0,
          "healthcheckEndpoint": "", "loadBalancingAlgorithm": "round-robin", "logLevel": "INFO", "maxReplicaCount": 1,
          "memory": 4, "minReplicaCount": 0, "partialUpload": false, "port": 8000, "pythonVersion": "3.10",
          "readycheckEndpoint": "", "replicaConcurrency": 100, "responseGracePeriodSeconds": 900, "retries": 0,
          "rollOutDurationSeconds": 0, "runtime": "cortex", "scalingBuffer": 0, "scalingMetric": "concurrency_utilization",
          "scalingTarget": 100, "useUv": false, "preBuildCommands": [], "shellCommands": []}'::jsonb -> key, 'null') as is_default
    from jsonb_each(r.settings) where key <> 'dependencies'
  ) s)
from builds b
where b.id = r.build_id and r.origins is null;
