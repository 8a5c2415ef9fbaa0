"""The backend over the path manager of the kernel's MPTCP, for hosts without OpenFlow switches."""
