"""From files and options to what a fit takes."""
