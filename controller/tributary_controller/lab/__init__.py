"""A small network of Open vSwitch switches and hosts on one machine, for tests and measurements; not for production."""
