"""Commands that steer a frontier: their arrival, their effects, and previews of these."""
