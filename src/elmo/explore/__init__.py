"""What users do with vectors: neighbours, similarity, senses, maps. Commands, service and page share it."""
