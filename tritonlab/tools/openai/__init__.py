"""OpenAI's API in front of any model that takes text and gives text, or gives numbers for a text."""
