"""Where the pure core meets the machine: installed plugins, shipped data, fresh keys."""
