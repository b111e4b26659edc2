"""Every seam to the world, as interfaces; no implementation lives here."""
