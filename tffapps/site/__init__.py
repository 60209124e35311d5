"""One site of a federation across machines: its certificates, its data, and TFF's worker behind mutual TLS.

python -m tffapps.site certs --names a,b -o certificates
python -m tffapps.site describe --data images --name a
python -m tffapps.site serve --data images --name a --cert a.pem --key a.key --ca ca.pem
"""

LEAF_DAYS = 365  # how long a certificate is valid
