"""What Flux is: versions, options, releases and the rendering of their components. Pure, but for `sources`."""
