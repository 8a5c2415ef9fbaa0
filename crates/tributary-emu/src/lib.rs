//! Link emulator between real kernel stacks: namespaces and TUN devices driven by the link model.
