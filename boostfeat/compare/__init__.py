"""Systems side by side: what they are, how they are trained and chosen, and their table with significance."""
