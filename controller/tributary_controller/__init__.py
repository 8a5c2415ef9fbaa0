"""Path controller of Tributary: finds the network paths between a client and a server, measures them, and adds or
removes them. One REST interface, two backends: switches that speak OpenFlow 1.3, or the kernel's MPTCP path manager."""
