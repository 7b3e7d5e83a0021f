"""The search for the best mapping of one loop nest on one core: branch and bound over tilings."""
