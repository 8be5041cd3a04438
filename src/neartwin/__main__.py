"""`python -m neartwin`: the terminal."""

from neartwin.cli import main

if __name__ == "__main__":
    main()
