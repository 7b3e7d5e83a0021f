"""What a report shows of a result, as data: ``info`` of each module. Terminal, HTML and ``explain`` render it."""
