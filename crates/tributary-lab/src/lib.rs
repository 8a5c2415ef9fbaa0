//! Experiments: a scenario, several transports, one workload, measured alike.
