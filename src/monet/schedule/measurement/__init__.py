"""What is read off a schedule: times, joules, memory over time, lower bounds."""
