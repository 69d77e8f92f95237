"""The main screen: `screen` composes widgets and controllers; each other file is a controller, or what they share."""
