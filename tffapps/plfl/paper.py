"""What the PLFL thesis reports, for the columns beside ours. Precision, recall and F1 are weighted by class size."""

SCORES = ("accuracy", "precision", "recall", "f1")
INITIAL = "initial"  # the server's training on its gold images, before any round

# Tables 4.9 and 4.10: parameters, and their size in MB.
PARAMETERS = {
    "densenet169": (20_874_243, 12_642_880, 33_517_123),
    "densenet201": (24_085_507, 18_321_984, 42_407_491),
    "mobilenetv2": (16_057_347, 2_257_984, 18_315_331),
}
MEGABYTES = {
    "densenet169": (79.63, 48.23, 127.86),
    "densenet201": (91.88, 69.89, 161.77),
    "mobilenetv2": (61.25, 8.61, 69.87),
}

# Tables 4.4 and 4.5: images by class, for each site.
SPLITS = {
    ("csfl", "client1"): (1255, 444, 126),
    ("csfl", "client2"): (1264, 439, 123),
    ("csfl", "server"): (271, 104, 31),
    **{(split, site): (930, 329, 93) for split in ("plfl", "fssfl") for site in ("client1", "client2", "server")},
}

# Tables 5.6, 5.9, 5.12 (PLFL; its initial training from the text around them), 5.16 and 5.17 (CSFL), 5.20, 5.22,
# 5.24 (FSSFL). For CSFL the thesis has the accuracy of every round and site, the other scores of the last round alone.
RESULTS: dict[tuple[str, str, str, str], tuple[float | None, ...]] = {
    ("gold", "densenet169", INITIAL, "server"): (0.81, 0.81, 0.81, 0.81),
    ("plfl", "densenet169", "0", "client1"): (0.91, 0.91, 0.91, 0.91),
    ("plfl", "densenet169", "0", "client2"): (0.85, 0.87, 0.85, 0.86),
    ("plfl", "densenet169", "0", "server"): (0.70, 0.77, 0.77, 0.72),
    ("plfl", "densenet169", "1", "client1"): (0.96, 0.96, 0.96, 0.96),
    ("plfl", "densenet169", "1", "client2"): (0.97, 0.97, 0.97, 0.97),
    ("plfl", "densenet169", "1", "server"): (0.84, 0.84, 0.84, 0.83),
    ("gold", "densenet201", INITIAL, "server"): (0.86, 0.87, 0.86, 0.86),
    ("plfl", "densenet201", "0", "client1"): (0.90, 0.90, 0.90, 0.90),
    ("plfl", "densenet201", "0", "client2"): (0.90, 0.81, 0.90, 0.90),
    ("plfl", "densenet201", "0", "server"): (0.82, 0.83, 0.82, 0.82),
    ("plfl", "densenet201", "1", "client1"): (0.93, 0.93, 0.93, 0.93),
    ("plfl", "densenet201", "1", "client2"): (0.92, 0.92, 0.92, 0.92),
    ("plfl", "densenet201", "1", "server"): (0.84, 0.84, 0.84, 0.84),
    ("gold", "mobilenetv2", INITIAL, "server"): (0.84, 0.83, 0.84, 0.84),
    ("plfl", "mobilenetv2", "0", "client1"): (0.94, 0.94, 0.94, 0.94),
    ("plfl", "mobilenetv2", "0", "client2"): (0.86, 0.89, 0.86, 0.86),
    ("plfl", "mobilenetv2", "0", "server"): (0.80, 0.81, 0.80, 0.80),
    ("plfl", "mobilenetv2", "1", "client1"): (0.93, 0.93, 0.93, 0.93),
    ("plfl", "mobilenetv2", "1", "client2"): (0.92, 0.92, 0.92, 0.92),
    ("plfl", "mobilenetv2", "1", "server"): (0.88, 0.88, 0.88, 0.88),
    ("csfl", "densenet169", "0", "client1"): (0.85165, None, None, None),
    ("csfl", "densenet169", "0", "client2"): (0.87978, None, None, None),
    ("csfl", "densenet169", "0", "server"): (0.69966, None, None, None),
    ("csfl", "densenet169", "1", "client1"): (0.86183, None, None, None),
    ("csfl", "densenet169", "1", "client2"): (0.9071, None, None, None),
    ("csfl", "densenet169", "1", "server"): (0.82512, None, None, None),
    ("csfl", "densenet169", "2", "client1"): (0.86264, None, None, None),
    ("csfl", "densenet169", "2", "client2"): (0.90164, None, None, None),
    ("csfl", "densenet169", "2", "server"): (0.81773, 0.81, 0.82, 0.81),
    ("csfl", "mobilenetv2", "0", "client1"): (0.83516, None, None, None),
    ("csfl", "mobilenetv2", "0", "client2"): (0.78142, None, None, None),
    ("csfl", "mobilenetv2", "0", "server"): (0.44828, None, None, None),
    ("csfl", "mobilenetv2", "1", "client1"): (0.87636, None, None, None),
    ("csfl", "mobilenetv2", "1", "client2"): (0.8306, None, None, None),
    ("csfl", "mobilenetv2", "1", "server"): (0.76847, None, None, None),
    ("csfl", "mobilenetv2", "2", "client1"): (0.85714, None, None, None),
    ("csfl", "mobilenetv2", "2", "client2"): (0.86339, None, None, None),
    ("csfl", "mobilenetv2", "2", "server"): (0.81034, 0.81, 0.81, 0.80),
    ("fssfl", "densenet169", "0", "client1"): (0.82, 0.82, 0.82, 0.79),
    ("fssfl", "densenet169", "0", "client2"): (0.80, 0.79, 0.80, 0.78),
    ("fssfl", "densenet169", "0", "server"): (0.70, 0.68, 0.70, 0.68),
    ("fssfl", "densenet169", "1", "client1"): (0.82, 0.83, 0.82, 0.80),
    ("fssfl", "densenet169", "1", "client2"): (0.83, 0.82, 0.83, 0.81),
    ("fssfl", "densenet169", "1", "server"): (0.88, 0.84, 0.88, 0.86),
    ("fssfl", "densenet201", "0", "client1"): (0.80, 0.80, 0.80, 0.79),
    ("fssfl", "densenet201", "0", "client2"): (0.86, 0.86, 0.86, 0.84),
    ("fssfl", "densenet201", "0", "server"): (0.68, 0.46, 0.68, 0.55),
    ("fssfl", "densenet201", "1", "client1"): (0.84, 0.85, 0.84, 0.83),
    ("fssfl", "densenet201", "1", "client2"): (0.84, 0.85, 0.84, 0.83),
    ("fssfl", "densenet201", "1", "server"): (0.80, 0.74, 0.80, 0.77),
    ("fssfl", "mobilenetv2", "0", "client1"): (0.83, 0.83, 0.83, 0.81),
    ("fssfl", "mobilenetv2", "0", "client2"): (0.81, 0.82, 0.81, 0.80),
    ("fssfl", "mobilenetv2", "0", "server"): (0.76, 0.65, 0.76, 0.67),
    ("fssfl", "mobilenetv2", "1", "client1"): (0.84, 0.84, 0.84, 0.82),
    ("fssfl", "mobilenetv2", "1", "client2"): (0.87, 0.87, 0.87, 0.85),
    ("fssfl", "mobilenetv2", "1", "server"): (0.87, 0.86, 0.87, 0.76),
}

# The thesis contradicts itself: other values that it has for rows of RESULTS, where they stand, and as which share.
# Table 5.12's 0.88 is Figure 5.12's 119 of 135, Table 5.11's 0.84 is what the text around both says.
CONTRADICTIONS: dict[tuple[str, str, str, str], tuple[tuple[str, float], ...]] = {
    ("gold", "mobilenetv2", INITIAL, "server"): (("Figure 5.3: 119 of 132", 0.9015), ("text: 114 of 135", 0.8444)),
    ("plfl", "mobilenetv2", "1", "server"): (("Table 5.11", 0.84),),
    ("fssfl", "mobilenetv2", "1", "server"): (("Table 5.23", 0.80),),
}

# Table 5.29 and Figure 5.13: network, parameters in millions and accuracy of fully supervised studies, and of PLFL. The
# thesis counts MobileNetV2 as ImageNet has it, 3.4 million; its own network, Table 4.9, has 18.3 (2.3 without a head).
STUDIES: tuple[tuple[str, str, float, float], ...] = (
    ("Masood et al.", "InceptionResNetV2", 28.0, 0.8929),
    ("Masood et al.", "ResNet152V2", 60.4, 0.8929),
    ("Dharmani et al.", "EfficientNet-B1", 7.8, 0.89),
    ("the thesis: PLFL", "MobileNetV2", 3.4, 0.8815),
)

# Macro F1 of the server's model after the last round, from the classification reports (Figures 5.4 to 5.11); the
# thesis shows a confusion matrix in place of MobileNetV2's PLFL report, and NaN for FSSFL with DenseNet169.
MACRO_F1 = {
    ("plfl", "densenet169", "1", "server"): 0.7333,
    ("plfl", "densenet201", "1", "server"): 0.7499,
    ("csfl", "densenet169", "2", "server"): 0.71,
    ("csfl", "mobilenetv2", "2", "server"): 0.70,
    ("fssfl", "densenet201", "1", "server"): 0.64,
    ("fssfl", "mobilenetv2", "1", "server"): 0.64,
}

# Tables 5.4, 5.7, 5.10: images kept by class.
PSEUDO_LABELS = {
    ("densenet169", 0, "client1"): (459, 121, 92),
    ("densenet169", 0, "client2"): (467, 110, 103),
    ("densenet169", 1, "client1"): (810, 123, 34),
    ("densenet169", 1, "client2"): (834, 115, 35),
    ("densenet201", 0, "client1"): (566, 209, 34),
    ("densenet201", 0, "client2"): (591, 209, 32),
    ("densenet201", 1, "client1"): (534, 224, 78),
    ("densenet201", 1, "client2"): (579, 218, 76),
    ("mobilenetv2", 0, "client1"): (725, 150, 77),
    ("mobilenetv2", 0, "client2"): (591, 209, 79),
    ("mobilenetv2", 1, "client1"): (661, 219, 86),
    ("mobilenetv2", 1, "client2"): (711, 214, 88),
}

# Tables 5.15, 5.18, 5.26: minutes on a Tesla T4.
MINUTES = {
    ("plfl", "densenet169"): 18.04,
    ("plfl", "densenet201"): 20.20,
    ("plfl", "mobilenetv2"): 18.34,
    ("csfl", "densenet169"): 59.517,
    ("csfl", "mobilenetv2"): 49.716,
    ("fssfl", "densenet169"): 94.21,
    ("fssfl", "densenet201"): 108.68,
    ("fssfl", "mobilenetv2"): 31.54,
}
