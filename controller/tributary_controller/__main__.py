"""`python -m tributary_controller` is the same as the command `tributary-controller`."""

from tributary_controller.cli import main

if __name__ == "__main__":
    main()
