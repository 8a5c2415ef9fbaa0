"""The backend over OpenFlow 1.3 switches. `network.Network` is its entry; os-ken reads and writes the messages."""
