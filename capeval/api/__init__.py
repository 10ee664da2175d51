"""The library: one module for each public function and its awaitable twin."""
